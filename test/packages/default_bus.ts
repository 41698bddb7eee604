import { RunningBus } from '../../harness/processes/running_bus.ts';

/** The bus of the tests that `on_default_bus.test.ts` runs. */
export const bus = RunningBus.forTests();
