import { busWithDefaultLimits, Victim } from '../../../harness/fences/victim.ts';

/** The bus and the victim of the fences that need no settings of their own. */
export const bus = busWithDefaultLimits();
export const victim = Victim.forTests(bus);
