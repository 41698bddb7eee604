import { RunningBus } from '../../harness/processes/running_bus.ts';

/** The bus of the tests that `on_short_lease_bus.test.ts` runs. Batches of dead workers come back within a second. */
export const bus = RunningBus.forTests({ env: { ROUTEMASTER_WORKER_LEASE: '1' } });
