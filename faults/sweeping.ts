import { sweep } from '../src/maintenance/sweep/sweep.ts';
import type { Store } from '../src/store/store.ts';

/** What a sweep had to mend; empty where all is well. */
export async function sweepFindings(store: Store): Promise<string[]> {
  const findings = await sweep(store);
  return findings.map(({ kind, name }) => `${kind} ${name}`);
}
