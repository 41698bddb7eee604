import type { BusSettings } from '../harness/processes/running_bus.ts';
import type { Lab } from './lab.ts';

/** A fault that happens to a bus, and the bars that must hold all the same. */
export interface Scenario {
  name: string;
  /** The fault, in a line. */
  title: string;
  /** Events to publish unless the command line says otherwise. `quick` takes seconds. */
  events: { full: number; quick: number };
  /** Settings of the bus. */
  bus?: BusSettings;
  /** Runs it, and states by `lab.bar` what must hold. That nothing is lost is always checked. */
  run(lab: Lab): Promise<void>;
}
