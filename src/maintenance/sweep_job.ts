import type { PublicNames } from '../authentication/public_names.ts';
import type { Log } from '../log.ts';
import { wrongTypes } from '../store/refusal.ts';
import { FIND_AND_RENAME, isWrongType } from '../store/wrong_type.ts';
import type { RepairParts } from './job_parts.ts';
import { FINDING_KINDS, type Finding } from './sweep/finding.ts';
import { sweep } from './sweep/sweep.ts';

const WRONG_TYPES = `another program has written keys of the bus; the sweep did what does not need them. ${FIND_AND_RENAME}`;

/**
 * Returns the `sweep` job, which finds and repairs inconsistencies in Redis, and logs and counts them. `rubyWorkers` is
 * the number of living Ruby workers (see `sweep`); only watchRuby passes it.
 */
export function sweepJob(parts: RepairParts): (signal: AbortSignal, rubyWorkers?: number) => Promise<void> {
  const { partition, publicNames, recorder, log } = parts;
  return async (signal, rubyWorkers) => {
    const findings: Finding[] = [];
    try {
      await sweep(partition, { signal, findings, ...(rubyWorkers && { rubyWorkers }) });
    } catch (error) {
      if (isWrongType(error)) log.error({ keys: await wrongTypes(partition) }, WRONG_TYPES);
      throw error;
    } finally {
      // The findings of a failed sweep are reported too, because no later sweep finds what this one has repaired.
      for (const { kind } of findings) recorder.swept(kind);
      await report(findings, publicNames, log);
    }
  };
}

/**
 * Logs each finding in a line of its own. Only the batches of a Ruby Routemaster share one line, because there may be
 * thousands of them. Clients appear under their public names, because a token can be a credential.
 */
async function report(findings: readonly Finding[], publicNames: PublicNames, log: Log): Promise<void> {
  const tokens = findings.flatMap((finding) => tokenIn(finding) ?? []);
  const publicName = await publicNames.allForLog(tokens);
  const strays = findings.filter(({ kind }) => kind === 'batch_of_ruby').length;
  if (strays > 0)
    log.error(
      { batches: strays },
      'a Ruby process still writes here: the sweep adopted batches that it stored',
    );
  for (const finding of findings) {
    const { kind } = finding;
    if (kind === 'batch_of_ruby') continue;
    const line = { kind, ...subjectOf(finding, publicName) };
    if (kind.endsWith('_unreadable'))
      log.error(line, 'the sweep found an inconsistency that it cannot repair');
    else log.warn(line, 'the sweep found an inconsistency and repaired it');
  }
}

function tokenIn({ kind, name }: Finding): string | undefined {
  const what = FINDING_KINDS[kind];
  if (what === 'subscriber' || what === 'client') return name;
  return what === 'trigger' ? name.slice(name.indexOf(' ') + 1) : undefined;
}

function subjectOf(finding: Finding, publicName: (token: string) => string): Record<string, string> {
  const { kind, name } = finding;
  const token = tokenIn(finding);
  if (token === undefined || token === name)
    return { [FINDING_KINDS[kind]]: token ? publicName(token) : name };
  return { [FINDING_KINDS[kind]]: name.slice(0, -token.length - 1), client: publicName(token) };
}
