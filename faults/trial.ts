import type { Bar } from '../harness/measuring/report.ts';
import { Lab, type LabOptions } from './lab.ts';
import type { Totals } from './ledger.ts';
import type { Scenario } from './scenario.ts';

/** The result of one run of a scenario. */
export interface Result extends Totals {
  scenario: string;
  seed: number;
  /** The partitions of the bus; undefined if none could be started. */
  partitions: number | undefined;
  /** The longest recovery, in ms; undefined if none was measured. */
  recoveryMs: number | undefined;
  bars: Bar[];
  ok: boolean;
}

/** Runs a scenario on a bus of its own. Never rejects: failures are in the result. */
export async function runScenario(scenario: Scenario, options: LabOptions): Promise<Result> {
  const failures: Bar[] = [];
  const attempt = async <T>(what: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await what();
    } catch (error) {
      failures.push({ text: 'the scenario ends by itself', ok: false, found: messageOf(error) });
      return undefined;
    }
  };
  const lab = await attempt(() => Lab.open(scenario, options));
  if (lab) {
    await attempt(async () => {
      await scenario.run(lab);
      await lab.settle();
    });
    await attempt(() => lab.close());
  }
  const totals = lab?.ledger.totals() ?? NONE;
  const lost: Bar = { text: 'lost 0', ok: totals.lost === 0, found: String(totals.lost) };
  const bars = [lost, ...(lab?.bars ?? []), ...failures];
  const { name } = scenario;
  const partitions = lab?.bus.partitions.all.length;
  const ok = bars.every((bar) => bar.ok);
  return { scenario: name, seed: options.seed, partitions, ...totals, recoveryMs: lab?.recoveryMs, bars, ok };
}

const NONE: Totals = {
  accepted: 0,
  lost: 0,
  duplicated: 0,
  storedTwice: 0,
  outOfOrder: undefined,
  late: 0,
};

function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause === undefined ? error.message : `${error.message} (${messageOf(error.cause)})`;
}
