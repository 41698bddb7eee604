import { DEATHS, type Death, type Stage } from '../deaths.ts';
import type { Scenario } from '../scenario.ts';

/** One process after the other dies, each at another step; each death must leave no trace. */
export const steps: Scenario = {
  name: 'steps',
  title: 'a process gets SIGKILL at every step of publish, acquire, deliver, ack, nack, scrub and autodrop',
  events: { full: 1400, quick: 60 },
  bus: { env: { ROUTEMASTER_WORKER_LEASE: '1' } },
  async run(lab) {
    const [web, worker] = [await lab.startProxied('web'), await lab.startProxied('worker')];
    const audience = await lab.subscribe('search', { topic: 'widgets', max: 5, timeout: 20 });
    const stage = { lab, web, worker, audience };
    const shuffled = lab.random.shuffled(DEATHS);
    const deaths = lab.quick ? shuffled.slice(0, 2) : shuffled;
    for (const death of deaths) {
      lab.say(`${death.process} dies ${death.name}`);
      await die(death, stage, Math.ceil(lab.events / deaths.length));
    }
    // `die` has settled the bus after each death, and would have thrown.
    lab.bar(`the sweep finds nothing after each of ${deaths.length} deaths`, true);
  },
};

async function die(death: Death, stage: Stage, events: number): Promise<void> {
  const { lab } = stage;
  const dead = death.comeAbout(stage);
  if (death.alone) await dead;
  const publishing = lab.publish({ topic: 'widgets', events, publishers: 2, perPost: 2, perSecond: 400 });
  await dead;
  const diedMs = performance.now();
  stage[death.process] = await lab.startProxied(death.process);
  await publishing.done;
  await lab.settle();
  lab.recovered(performance.now() - diedMs);
}
