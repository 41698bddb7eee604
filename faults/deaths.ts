import assert from 'node:assert/strict';
import { answer } from '../harness/http/receiver.ts';
import { until } from '../harness/until.ts';
import type { Audience, Lab, Proxied } from './lab.ts';
import { acknowledgesOnMain, type Message } from './redis_proxy.ts';

/** The processes and subscribers that a death needs. */
export interface Stage {
  lab: Lab;
  web: Proxied;
  worker: Proxied;
  audience: Audience;
}

/** A step of the bus at which one of its processes dies. */
export interface Death {
  name: string;
  process: 'web' | 'worker';
  /** True if nothing else may be published meanwhile. */
  alone?: boolean;
  /** Provokes the step and kills the process at it; resolves when the process is dead. */
  comeAbout(stage: Stage): Promise<void>;
}

const SIDES = [
  ['before', 'request'],
  ['after', 'reply'],
] as const;

/**
 * Two deaths for each script: its caller dies before the script runs, or after it ran and before the reply arrives.
 */
const AT_SCRIPTS: Death[] = SIDES.flatMap(([side, at]) => [
  { name: `${side} publish`, process: 'web', comeAbout: ({ web }) => dies(web, is('publish', at)) },
  { name: `${side} acquire`, process: 'worker', comeAbout: ({ worker }) => dies(worker, acquires(at)) },
  { name: `${side} ack`, process: 'worker', comeAbout: ({ worker }) => dies(worker, acknowledges(at)) },
  { name: `${side} nack`, process: 'worker', comeAbout: (stage) => nack(stage, at) },
  { name: `${side} scrub`, process: 'worker', comeAbout: (stage) => scrub(stage, at) },
  { name: `${side} autodrop`, process: 'worker', alone: true, comeAbout: (stage) => autodrop(stage, at) },
]);

export const DEATHS: readonly Death[] = [
  ...AT_SCRIPTS,
  { name: 'before the subscriber answers', process: 'worker', comeAbout: (stage) => deliver(stage, false) },
  {
    name: 'after the subscriber has answered',
    process: 'worker',
    comeAbout: (stage) => deliver(stage, true),
  },
];

type At = Message['at'];
type Fits = (message: Message) => boolean;

const is =
  (script: string, at: At): Fits =>
  (message) =>
    message.call.script === script && message.at === at;

const onMain =
  (script: string, at: At): Fits =>
  (message) =>
    is(script, at)(message) && message.call.args[0] === 'main';

/** Fits a call of `acquire`, or a reply to it that has a job: losing a reply without a job would test nothing. */
const acquires =
  (at: At): Fits =>
  (message) =>
    onMain('acquire', at)(message) && (message.at === 'request' || message.reply.includes('batch'));

/** Fits a call of `acquire` that acknowledges a delivery, usually on the way to the next job. */
const acknowledges =
  (at: At): Fits =>
  (message) =>
    message.at === at && acknowledgesOnMain(message.call);

/** Kills a process at the first message that matches. */
function dies({ process, proxy }: Proxied, fits: Fits): Promise<void> {
  return soon(proxy.strike(fits, { first: () => process.kill(), end: 'cut' }));
}

/** Rejects if the step does not come about. */
export async function soon(killed: Promise<void>): Promise<void> {
  let dead = false;
  void killed.then(() => {
    dead = true;
  });
  await until(() => dead, { timeoutMs: 30_000, what: 'the step is taken' });
}

async function nack({ worker, audience }: Stage, at: At): Promise<void> {
  audience.receiver.answers(answer.status(500));
  await dies(worker, onMain('nack', at));
}

/** One worker dies during a delivery, and the next one dies when it gives that delivery back. */
async function scrub(stage: Stage, at: At): Promise<void> {
  const { receiver } = stage.audience;
  receiver.answers(answer.hang);
  await receiver.delivery(receiver.deliveries.length + 1);
  await stage.worker.process.kill();
  stage.worker = await stage.lab.startProxied('worker');
  // The first scrub comes too early to find anything.
  const finds: Fits = (message) =>
    message.at === 'request' || /:[1-9]/.test(message.reply.toString('latin1'));
  await dies(stage.worker, (message) => is('scrub', at)(message) && finds(message));
}

async function deliver({ worker, audience }: Stage, answered: boolean): Promise<void> {
  const killed = new Promise<void>((resolve) => {
    audience.receiver.answers((response) => {
      if (!answered) return resolve(worker.process.kill());
      response.once('finish', () => resolve(worker.process.kill()));
      answer.status(204)(response);
    });
  });
  await soon(killed);
}

/**
 * Number of events that are published to fill Redis. They are most of what Redis stores, so dropping some of them frees
 * enough.
 */
const HOARD = 8000;
/** Bytes by which the memory limit is set below the memory in use. */
const SHORT_BY_BYTES = 50_000;

/** Batches pile up for a subscriber that takes none until memory runs short. The drop notices must be exact. */
async function autodrop({ lab, worker }: Stage, at: At): Promise<void> {
  // The subscriber is in the topic's own partition, where an accepted event is queued at once.
  const { redis, keys, index } = lab.bus.partitions.ofTopic('hoard');
  const { subscriber, receiver } = await lab.subscribe(
    'hoarder',
    { topic: 'hoard', partition: index, max: 5 },
    { doomed: true },
  );
  receiver.usual = answer.status(503, { 'retry-after': '3600' });
  await lab.publish({ topic: 'hoard', events: HOARD, perPost: 100 }).done;
  const died = dies(worker, is('autodrop', at));
  const used = /^used_memory:(\d+)/m.exec(await redis.info('memory'))?.[1];
  await redis.config('SET', 'maxmemory', String(Number(used) - SHORT_BY_BYTES));
  const refused = lab.publish({ topic: 'hoard' });
  await refused.isRefused();
  await refused.stop();
  await died;
  await redis.config('SET', 'maxmemory', '0');
  const queued = Number(await redis.hget(keys.gauge_events(), subscriber.token));
  const dropped = Number(await redis.hget(keys.dropped(subscriber.token), 'events'));
  assert.equal(queued + dropped, HOARD + refused.accepted, 'what was dropped is counted');
  await subscriber.call('DELETE', '/subscriber');
}
