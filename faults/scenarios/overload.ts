import { Helper } from '../../harness/measuring/helper.ts';
import { sleep } from '../../src/clock.ts';
import type { Lab } from '../lab.ts';
import type { OfferCalls, Offered, OfferPlan } from '../processes/offer.ts';
import type { TallyCalls } from '../processes/tally.ts';
import { Residence } from '../resident.ts';
import type { Scenario } from '../scenario.ts';

const TOPIC = 'widgets';
const TIMES = 5;
const LIMITS = {
  full: { offered: 0.95, refusedMs: 100, grownMiB: 64, goodput: 0.75 },
  /** Quick runs share the CPU with other tests, and the load has the lowest priority, so it gets little of it. */
  quick: { offered: 0.4, refusedMs: 1000, grownMiB: 400, goodput: 0.2 },
};
/**
 * Events of a POST. To refuse a request, web must read it. With single events that is most of a publish's cost, and no
 * core could refuse four of five; with two hundred events, a refusal saves nearly all of the cost.
 */
const PER_POST = 200;
/** Connections that wait for each answer: they offer as much as the bus takes. */
const CONNECTIONS = 32;
/** More connections than web admits at a time, so that it must refuse. */
const MANY_CONNECTIONS = 3000;
/** A few steady requests beside the load, by which refusals are timed. */
const PROBES = { perSecond: 50, connections: 200 };

/**
 * First measures how many events a second the bus can take and deliver. Then offers five times as many, whether or
 * not answers come. The load runs at the lowest priority (nice 19), so that it does not take the bus's CPU, and sees
 * its answers late. So a second process of normal priority sends a few such POSTs, by which refusals are timed. Times
 * during which web was ready to run but had no CPU are subtracted.
 */
export const overload: Scenario = {
  name: 'overload',
  title: `${TIMES} times the load that the bus sustains`,
  events: { full: 2_400_000, quick: 150_000 },
  async run(lab) {
    const web = await lab.start('web');
    const processes = [web, await lab.start('worker')];
    const memory = new Residence(web.pid);
    lab.after(() => memory.close());
    const load = await Load.open(lab);
    const seconds = lab.quick ? 1 : 5;

    // Warm-up: web compiles, and its heap grows to its working size.
    await load.offer({ name: 'warm-up', seconds, connections: CONNECTIONS });
    await lab.settle();
    const sustained = await load.eventsPerSecond({ name: 'sustained', seconds, connections: CONNECTIONS });
    await lab.settle();
    const usual = memory.takeHighest();

    const overSeconds = Math.ceil(lab.events / sustained);
    lab.say(`sustains ${whole(sustained)} events/s; now ${TIMES} times that for ${overSeconds} s`);
    const perSecond = (TIMES * sustained) / PER_POST;
    const during = { seconds: overSeconds };
    const both = Promise.all([
      load.offer({ name: 'overload', ...during, perSecond, connections: MANY_CONNECTIONS }),
      load.probe({ name: 'probes', ...during, ...PROBES, serverPid: web.pid }),
    ]);
    await Promise.race([sleep((overSeconds * 1000) / 2), both]);
    const firstHalf = memory.takeHighest();
    const [loaded, probed] = await both;
    const secondHalf = memory.takeHighest();
    lab.say(`${describe(loaded)}; the probes: ${describe(probed)}`);
    await lab.settle();

    const sent = (loaded.sent * PER_POST) / overSeconds;
    const accepted = (loaded.accepted.length * PER_POST) / overSeconds;
    const text = `${TIMES} × ${whole(sustained)} events/s are offered, ${whole(accepted)} accepted`;
    const { offered, refusedMs, grownMiB, goodput } = lab.quick ? LIMITS.quick : LIMITS.full;
    lab.bar(text, sent >= offered * TIMES * sustained, `only ${whole(sent)} were offered`);
    lab.bar(
      `${whole(goodput * 100)} % of what it sustains is accepted meanwhile, or more`,
      accepted >= goodput * sustained,
    );
    judge(lab, loaded, probed, refusedMs);
    const memories = `${mib(usual)} before, ${mib(firstHalf)} in the first half, ${mib(secondHalf)} in the second`;
    lab.bar(`web’s memory is flat (${memories})`, secondHalf - firstHalf < grownMiB);
    const lost = await load.lost();
    lab.bar('every accepted event is received', lost === 0, `${lost} were not`);
    lab.noneExited(processes);
  },
};

function judge(lab: Lab, loaded: Offered, probed: Offered, limitMs: number): void {
  const wrong = [...loaded.wrong, ...probed.wrong].map(([what, count]) => `${count} × ${what}`);
  lab.bar('every answer is 204, or 503 with Retry-After', wrong.length === 0, wrong.join());
  // In a short run, perhaps no probe is refused. Then the refusals of the load are judged.
  const { refused, refusedP99Ms } = probed.refused > 0 ? probed : loaded;
  lab.bar(
    `refusals within ${limitMs} ms (p99 ${whole(refusedP99Ms)} ms)`,
    refused > 0 && refusedP99Ms <= limitMs,
  );
}

type Plan = Omit<OfferPlan, 'port' | 'path' | 'authorization' | 'perPost'>;

/** The publishers, the receiver, and the counts of both. */
class Load {
  readonly #lab: Lab;
  readonly #tally: Helper<TallyCalls>;
  readonly #load: Helper<OfferCalls>;
  readonly #probe: Helper<OfferCalls>;
  readonly #accepted = new Map<string, number[]>();
  #authorization = '';

  static async open(lab: Lab): Promise<Load> {
    const load = new Load(lab);
    const subscriber = await lab.bus.client('search');
    const callback = await load.#tally.call('listen');
    await subscriber.call('POST', '/subscription', { topics: [TOPIC], callback, uuid: 'lab', timeout: 50 });
    const { token, secret } = await lab.bus.client('publisher');
    load.#authorization = `Basic ${btoa(`${token}:${secret}`)}`;
    return load;
  }

  private constructor(lab: Lab) {
    this.#lab = lab;
    this.#tally = new Helper(lab, new URL('../processes/tally.ts', import.meta.url));
    this.#load = new Helper(lab, new URL('../processes/offer.ts', import.meta.url), { last: true });
    this.#probe = new Helper(lab, new URL('../processes/offer.ts', import.meta.url));
  }

  offer(plan: Plan): Promise<Offered> {
    return this.#offer(this.#load, plan);
  }

  probe(plan: Plan): Promise<Offered> {
    return this.#offer(this.#probe, plan);
  }

  /** Offers the load, and resolves with the events received a second meanwhile. */
  async eventsPerSecond(plan: Plan): Promise<number> {
    const [before, beganMs] = [await this.#tally.call('received'), performance.now()];
    await this.offer(plan);
    const received = (await this.#tally.call('received')) - before;
    return (received * 1000) / (performance.now() - beganMs);
  }

  /** Resolves with the number of accepted events that were not received. */
  async lost(): Promise<number> {
    let lost = 0;
    for (const [name, posts] of this.#accepted)
      lost += await this.#tally.call('missing', name, posts, PER_POST);
    return lost;
  }

  async #offer(by: Helper<OfferCalls>, plan: Plan): Promise<Offered> {
    const port = Number(new URL(this.#lab.bus.url).port);
    const to = { port, path: `/topics/${TOPIC}`, authorization: this.#authorization, perPost: PER_POST };
    const offered = await by.call('offer', { ...to, ...plan });
    this.#accepted.set(plan.name, offered.accepted);
    // The ledger keeps only the count; the tally keeps the URLs.
    this.#lab.ledger.accept(TOPIC, new Array<string>(offered.accepted.length * PER_POST).fill(plan.name));
    return offered;
  }
}

const whole = (value: number) => Math.round(value).toLocaleString('en');
const mib = (size: number) => `${whole(size)} MiB`;

function describe({ sent, held, accepted, refused, refusedP99Ms, refusedMaxMs }: Offered): string {
  const took = `p99 ${whole(refusedP99Ms)} ms, at most ${whole(refusedMaxMs)} ms`;
  return `${sent} POSTs sent, ${held} held back, ${accepted.length} accepted, ${refused} refused (${took})`;
}
