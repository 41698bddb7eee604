import { BULK_JOB, withoutToken } from '../delivering/dead_letters/bulks.ts';
import { packJob, unpackJob } from '../store/job.ts';

/**
 * Matches the id of a job: its queue, the index of its partition if there are several, and its bytes in Redis as
 * base64url.
 */
export const JOB_ID = /^(main|aux)(?:\.(\d{1,3}))?-([\w-]{1,1000})$/;

/** Returns the id of a job. `where` is the part of the id before the hyphen. */
export function jobId(where: string, packed: Buffer): string {
  return `${where}-${packed.toString('base64url')}`;
}

/** Returns the id of a job as the audit shows it: without a token. Any other id is returned unchanged. */
export function auditedJobId(id: string): string {
  const [, , , packed = ''] = JOB_ID.exec(id) ?? [];
  const job = withoutToken(unpackJob(Buffer.from(packed, 'base64url')));
  if (job?.name !== BULK_JOB) return id;
  return jobId(id.slice(0, -packed.length - 1), packJob(job.name, job.args));
}
