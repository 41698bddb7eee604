import { z } from 'zod';
import type { PublicNames } from '../authentication/public_names.ts';
import { BULK_JOB } from '../delivering/dead_letters/bulks.ts';
import { BusError } from '../errors.ts';
import type { Caller } from '../routing/caller.ts';
import { DEFAULT_LISTED, LIMIT, nextLink, type Pages, PLACE } from '../routing/paging.ts';
import { ENTRIES_PER_CALL } from '../routing/picking.ts';
import { parameters } from '../routing/query.ts';
import { type Input, NO_CONTENT, NOTHING, ok, ROOT, type Route, route, WATCHERS } from '../routing/route.ts';
import { oneOf } from '../routing/schemas.ts';
import { packJob, QUEUES } from '../store/job.ts';
import { jobId } from './job_id.ts';
import { JOB_STATES } from './job_readers.ts';
import { JOB, type Jobs, type ListedJob } from './jobs.ts';

const QUERY = parameters({
  queue: oneOf(QUEUES).optional(),
  state: oneOf(JOB_STATES).optional(),
  limit: LIMIT,
  cursor: PLACE.optional(),
});

const JOB_PARAMS: Input<{ id: string }> = {
  schema: z.object({ id: z.string().describe('The id of the job.') }),
  wording: { code: 'job_not_found', whole: 'there is no such job' },
};

interface JobsParts {
  jobs: Jobs;
  pages: Pages;
  publicNames: PublicNames;
}

/** `/jobs`: lists the jobs of the queues `main` and `aux`, and runs a scheduled job at once. */
export function jobsApi({ jobs, pages, publicNames }: JobsParts): Route[] {
  return [
    route('GET /jobs', WATCHERS, {
      query: QUERY,
      answers: { 200: z.array(JOB) },
      async handle({ caller, path, query: { limit, cursor, ...filter } }) {
        // The cursor is encrypted for this path and filter, so that it cannot be used in another listing.
        const listing = `${path} ${filter.queue} ${filter.state}`;
        const place = cursor && (await pages.open(listing, 'cursor', cursor));
        const { jobs: found, looked, next } = await jobs.page(filter, limit ?? DEFAULT_LISTED, place);
        const after = next && (await pages.seal(listing, next));
        const headers = after === undefined ? after : nextLink(path, { ...filter, limit, cursor: after });
        return {
          ...ok(await seenBy(publicNames, caller, found)),
          headers,
          priceInCalls: looked / ENTRIES_PER_CALL,
        };
      },
    }),
    route('POST /jobs/:id/run', ROOT, {
      action: 'job.run',
      params: JOB_PARAMS,
      answers: NOTHING,
      errors: ['job_not_found', 'job_not_scheduled'],
      async handle({ params: { id } }) {
        const outcome = await jobs.run(id);
        if (outcome === 'job_not_found')
          throw new BusError(outcome, 'there is no such job; it may have ended');
        if (outcome === 'job_not_scheduled')
          throw new BusError(
            outcome,
            'only a scheduled job can be run now; this one is instant, pending or waiting',
          );
        return NO_CONTENT;
      },
    }),
  ];
}

/**
 * Returns jobs as the caller may see them. A viewer sees public names instead of tokens, which can be credentials. A
 * token may be in the field `subscriber`. The job of a bulk operation also has a token among its arguments, and thus in
 * its id, which is made from the arguments.
 */
async function seenBy(publicNames: PublicNames, caller: Caller, jobs: ListedJob[]): Promise<ListedJob[]> {
  const shown = await publicNames.shownTo(caller, jobs, 'subscriber');
  const nameOf = await publicNames.seenBy(
    caller,
    jobs.flatMap((job) => clientOfBulk(job) ?? []),
  );
  return shown.map((job) => {
    const client = clientOfBulk(job);
    if (client === undefined) return job;
    const args = [nameOf(client), ...job.arguments.slice(1)];
    const [where = ''] = job.id.split('-', 1);
    return { ...job, id: jobId(where, packJob(BULK_JOB, args)), arguments: args };
  });
}

/** Returns the token of the client that has begun a bulk operation. Undefined for other jobs, and if root began it. */
function clientOfBulk({ name, arguments: [owner] }: ListedJob): string | undefined {
  return name === BULK_JOB && typeof owner === 'string' && !owner.startsWith(':') ? owner : undefined;
}
