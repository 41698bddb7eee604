import type { BusProcess } from '../../harness/processes/bus_process.ts';
import { faketimeLibrary, wrongClock } from '../../harness/processes/faketime_library.ts';
import { ClockWatch, EVENTS_PER_ROUND } from '../clock_watch.ts';
import { seeToFaketime } from '../faketime.ts';
import type { Lab } from '../lab.ts';
import type { Scenario } from '../scenario.ts';

const LEASE_MS = 1000;
const OFFSETS = { '+60s': 60e3, '-60s': -60e3, '+1d': 86_400e3, '-1d': -86_400e3 };
const MISJUDGED = /^scrubbed workers|^the lease ran out/;

const ROUNDS = 2;
const PER_CASE = ROUNDS * EVENTS_PER_ROUND;
const CASES = 2 * Object.keys(OFFSETS).length;

/**
 * A process with a wrong clock works beside one with a right clock, then alone. The events have misleading timestamps.
 */
export const clocks: Scenario = {
  name: 'clocks',
  title: 'the clock of a web or worker is off by 60 s or a day, either way; events have hostile timestamps',
  events: { full: CASES * PER_CASE, quick: 2 * PER_CASE },
  bus: { env: { ROUTEMASTER_WORKER_LEASE: String(LEASE_MS / 1000) } },
  async run(lab) {
    const library = await findLibrary(lab);
    if (!library) return;
    const running = { web: await lab.start('web'), worker: await lab.start('worker') };
    const all = Object.values(running);
    const watch = new ClockWatch(lab, LEASE_MS);
    await watch.open();
    const cases = lab.random
      .shuffled(Object.keys(OFFSETS) as (keyof typeof OFFSETS)[])
      .flatMap((offset) => [{ name: 'worker', offset } as const, { name: 'web', offset } as const]);
    for (let nth = 0; nth < lab.events / PER_CASE; nth++) {
      const { name, offset } = cases[nth % cases.length] as (typeof cases)[number];
      lab.say(`${name} with a clock of ${offset}`);
      const wrong = await lab.start(name, wrongClock(library, offset));
      requireOffset(wrong, OFFSETS[offset]);
      await watch.round(`${name} ${offset}, beside another`);
      await running[name].stop();
      await watch.round(`${name} ${offset}, alone`);
      running[name] = await lab.start(name);
      await wrong.stop();
      all.push(wrong, running[name]);
    }
    await watch.refuseNonsense();
    const misjudged = all.flatMap(({ log }) => log.filter(({ msg }) => MISJUDGED.test(msg)));
    lab.bar('no worker is taken for dead', misjudged.length === 0, misjudged.map(({ msg }) => msg).join());
    watch.judge();
  },
};

async function findLibrary(lab: Lab): Promise<string | undefined> {
  try {
    // Quick runs are a part of the tests, which install nothing.
    return lab.quick ? faketimeLibrary() : await seeToFaketime();
  } catch (error) {
    lab.say((error as Error).message);
    return undefined;
  } finally {
    if (!faketimeLibrary()) lab.bar('skipped: libfaketime is not installed', true);
  }
}

/** Throws if the clock is right: the library was not loaded, and the scenario would prove nothing. */
function requireOffset({ log, name }: BusProcess, offsetMs: number): void {
  const saidMs = Date.parse(String(log[0]?.time));
  if (Math.abs(saidMs - Date.now() - offsetMs) < 30_000) return;
  throw new Error(`the clock of ${name} is not off by ${offsetMs / 1000} s: it says ${log[0]?.time}`);
}
