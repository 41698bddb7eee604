import type { BusSettings } from '../harness/running_bus.ts';
import type { Lab } from './lab.ts';

/** Something that happens to a bus, and what must hold all the same. */
export interface Scenario {
  name: string;
  /** What happens, in a line. */
  title: string;
  /** How many events are published unless the command line says otherwise; `quick`: in seconds. */
  events: { full: number; quick: number };
  /** Settings of the bus. */
  bus?: BusSettings;
  /** Does it, and says by `lab.bar` what must hold. That nothing is lost goes without saying. */
  run(lab: Lab): Promise<void>;
}
