import { ROOT_KEY, VIEWER_KEY } from '../../../harness/processes/bus_environment.ts';
import { RunningBus } from '../../../harness/processes/running_bus.ts';

/** The bus that the tests of one process share: those of `on_one_bus.test.ts`, or those of `on_another_bus.test.ts`. */
export const bus = RunningBus.forTests({ env: { ROUTEMASTER_VIEWER_KEY: VIEWER_KEY } });

/** The options by which root calls the bus. */
export const asRoot = () => `-b ${bus.url} -t ${ROOT_KEY}`;

/** Makes a client. Resolves with its token, and the options by which it calls the bus. */
export async function client(name: string) {
  const { token, secret } = await bus.client(name);
  return { token, options: `-b ${bus.url} -t ${token}:${secret}` };
}
