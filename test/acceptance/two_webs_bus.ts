import { RunningBus } from '../../harness/processes/running_bus.ts';

/** The bus of the tests that `on_two_webs_bus.test.ts` runs. */
export const bus = RunningBus.forTests({ env: { WEB_CONCURRENCY: '2', ROUTEMASTER_CALL_RATE: '0' } });
