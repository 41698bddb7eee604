import { MeddlingProxy } from '../../harness/meddling_proxy.ts';
import type { BusProcess } from '../../harness/processes/bus_process.ts';
import { until } from '../../harness/until.ts';
import { Routemaster } from '../../packages/client/src/index.ts';
import { sleep } from '../../src/clock.ts';
import type { Lab } from '../lab.ts';
import type { Scenario } from '../scenario.ts';
import { Troubles } from '../troubles.ts';

const TOPICS = ['orders', 'parcels', 'invoices'];
/** Publishes under way at a time. */
const CALLERS = 60;
/** Short, so that a connection which the proxy mutes costs little, but longer than a pause of the proxy (400 ms). */
const ATTEMPT_TIMEOUT_MS = 2000;

/** Publishes by `@routemaster/client`, one event a call, while a proxy cuts, delays and mutes, and webs are killed. */
export const client: Scenario = {
  name: 'client',
  title: 'the client publishes through a proxy that cuts, delays and drops replies, while webs are killed',
  events: { full: 20_000, quick: 600 },
  async run(lab) {
    const webs = new Webs(lab);
    await webs.start();
    await webs.start();
    await lab.start('worker');
    for (const topic of TOPICS) await lab.subscribe(`of_${topic}`, { topic, timeout: 50 });
    const proxy = await MeddlingProxy.toWeb(() => webs.port());
    lab.after(() => proxy.stop());
    const messages = lab.quick ? { min: 2, max: 10 } : { min: 10, max: 60 };
    const troubles = new Troubles({ random: lab.random.fork('troubles'), messages, fewMutes: lab.quick });
    proxy.meddle = ({ at }) => troubles.next(at);

    const publishing = new Publishing(lab, proxy.url, await lab.bus.client('shop'));
    const kills = lab.quick ? 2 : 12;
    for (let kill = 1; kill <= kills; kill++) {
      await publishing.reaches((lab.events / (kills + 1)) * kill);
      await sleep(lab.random.between(0, 50));
      await webs.killOne();
      lab.say(`killed web, ${kill} of ${kills}`);
      await webs.start();
    }
    await publishing.reaches(lab.events);
    proxy.meddle = () => undefined;
    await lab.settle();
    lab.say(`the client had ${troubles}`);
    lab.noneStoredTwice();
    lab.bar(
      'each publish succeeds',
      publishing.failed.length === 0,
      `${publishing.failed.join(', ') || 'all'}`,
    );
  },
};

/** Two web processes, one of which is killed again and again. */
class Webs {
  readonly #lab: Lab;
  readonly #running: { web: BusProcess; port: number }[] = [];

  constructor(lab: Lab) {
    this.#lab = lab;
  }

  async start(): Promise<void> {
    const web = await this.#lab.start('web');
    this.#running.push({ web, port: Number((await web.logs('listening')).port) });
  }

  /** Returns the port of one of the webs, at random; for a moment also of a web that was just killed. */
  port(): number {
    return this.#lab.random.pick(this.#running).port;
  }

  async killOne(): Promise<void> {
    const [killed] = this.#running;
    await killed?.web.kill();
    this.#running.shift();
  }
}

/** Callers that publish one event after the other, each of its own URL. */
class Publishing {
  accepted = 0;
  readonly failed: string[] = [];
  #offered = 0;
  readonly #callers: Promise<unknown>;

  constructor(lab: Lab, url: string, { token, secret }: { token: string; secret: string }) {
    const bus = new Routemaster({ url, token, secret, attemptTimeoutMs: ATTEMPT_TIMEOUT_MS });
    const call = async () => {
      while (this.#offered < lab.events) {
        const n = this.#offered++;
        const topic = TOPICS[n % TOPICS.length] ?? '';
        const about = `https://shop.example.com/${topic}/${n}`;
        try {
          await bus.updated(topic, about);
          lab.ledger.accept(topic, [about]);
          this.accepted++;
        } catch (error) {
          this.failed.push(String(error));
        }
      }
    };
    this.#callers = Promise.all(Array.from({ length: CALLERS }, call));
    lab.after(() => this.#callers);
  }

  /** Waits until this many events are accepted, or all callers have ended. */
  async reaches(accepted: number): Promise<void> {
    const isThere = () => this.accepted + this.failed.length >= accepted;
    await Promise.race([
      until(isThere, { timeoutMs: 120_000, what: `${accepted} are accepted` }),
      this.#callers,
    ]);
  }
}
