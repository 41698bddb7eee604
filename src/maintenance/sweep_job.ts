import { Clients } from '../authentication/client.ts';
import { PublicNames } from '../authentication/public_names.ts';
import type { Log } from '../log.ts';
import type { Recorder } from '../metrics/recorder.ts';
import type { Store } from '../store/store.ts';
import { FINDING_KINDS, type Finding } from './sweep/finding.ts';
import { sweep } from './sweep/sweep.ts';

/** The `sweep` job: finds, repairs, logs and counts inconsistencies in Redis. */
export function sweepJob(
  store: Store,
  { clients }: { clients: readonly string[] },
  recorder: Recorder,
  log: Log,
): (signal: AbortSignal) => Promise<void> {
  const publicNames = new PublicNames(new Clients(store, clients));
  return async (signal) => {
    const findings: Finding[] = [];
    try {
      await sweep(store, { signal, found: (finding) => findings.push(finding) });
    } finally {
      // Also if the sweep failed, since no later sweep will find the inconsistencies that this one has
      // repaired.
      for (const { kind } of findings) recorder.swept(kind);
      await report(findings, publicNames, log);
    }
  };
}

/** Logs each finding, with subscribers by their public names, since a token can be a credential. */
async function report(findings: readonly Finding[], publicNames: PublicNames, log: Log): Promise<void> {
  const tokens = findings.filter(namesSubscriber).map(({ name }) => name);
  const publicName = await publicNames.of(tokens).catch(() => () => 'unknown, as Redis is away');
  for (const finding of findings) {
    const { kind, name } = finding;
    const line = { kind, [FINDING_KINDS[kind]]: namesSubscriber(finding) ? publicName(name) : name };
    if (kind.endsWith('_unreadable'))
      log.error(line, 'the sweep found an inconsistency that it cannot repair');
    else log.warn(line, 'the sweep found an inconsistency and repaired it');
  }
}

function namesSubscriber({ kind }: Finding): boolean {
  return FINDING_KINDS[kind] === 'subscriber';
}
