import type { Receiver } from '../../harness/http/receiver.ts';
import { RubyWeb, RubyWorker } from '../../harness/redis/ruby_processes.ts';
import { until } from '../../harness/until.ts';
import { sleep } from '../../src/clock.ts';
import { batchBody } from '../../src/delivering/batch.ts';
import { sweep } from '../../src/maintenance/sweep/sweep.ts';
import type { Lab } from '../lab.ts';
import type { Scenario } from '../scenario.ts';

const TOPIC = 'widgets';
const TOKEN = 'old--0123456789abcdef';
/** Pause of the Ruby web between two publishes. */
const PAUSE_MS = 10;
/** Log lines that are expected: about Ruby processes, and about the repairs of a sweep after them. */
const ANNOUNCED = /Ruby|^the sweep found/;

/** The bus takes over Redis while a Ruby web goes on publishing. In the middle, a Ruby worker is started again. */
export const rollingMove: Scenario = {
  name: 'rolling-move',
  title: 'a Ruby web goes on after the takeover, and a Ruby worker is started again in the middle',
  events: { full: 20_000, quick: 400 },
  // A Ruby Routemaster can only be taken over by a bus with one partition.
  bus: { env: { ROUTEMASTER_PARTITIONS: '1', ROUTEMASTER_WORKER_LEASE: '2' } },
  async run(lab) {
    const { store } = lab.bus;
    const receiver = await subscribeAsRuby(lab);
    const web = new RubyWeb(store.redis);
    for (let n = 1; n <= 20; n++) await publishAsRuby(lab, web, `before/${n}`);

    const worker = await lab.start('worker');
    await lab.start('web');
    lab.bus.announceError(ANNOUNCED);
    const old = overlap(lab, web);
    const perSecond = lab.quick ? 100 : 330;
    const publishing = lab.publish({ topic: TOPIC, publishers: 4, perSecond, again: true });
    await publishing.reaches(lab.events / 3);
    const stray = new RubyWorker(store.redis, deliverAsRuby);
    stray.start();
    lab.say('started a Ruby worker');
    await worker.logs(
      'a Ruby worker still takes jobs here, and forgets them: stop it, as docs/migrating.md says',
    );
    await publishing.reaches((lab.events / 3) * 2);
    await stray.stop();
    lab.say(`stopped the Ruby worker, which has delivered ${stray.delivered.length} events`);
    await publishing.reaches(lab.events);
    await publishing.stop();
    const published = await old.stop();
    lab.say(`stopped the Ruby web, which has stored ${published} events`);
    await worker.logs('a Ruby process still writes here: stop it, as docs/migrating.md says');
    const isSwept = async () => (await sweep(store)).length === 0;
    await until(isSwept, { everyMs: 200, what: 'a sweep finds nothing' });
    await lab.settle();
    const strays = (await store.redis.keys('batches:*')).filter((key) => /^batches:[^:]{20}$/.test(key));
    lab.bar('no batch of Ruby is left', strays.length === 0, strays.join(' '));
    lab.bar('both sides published', published > 0 && receiver.events.length > published);
  },
};

/** Fills Redis with a client that subscribes to the topic, as the Ruby Routemaster does. */
async function subscribeAsRuby(lab: Lab): Promise<Receiver> {
  const { redis } = lab.bus.store;
  const receiver = await lab.bus.receiver(lab);
  await redis.hset('api_tokens:by_token', TOKEN, 'old');
  await redis.sadd('topics', TOPIC);
  await redis.sadd('subscribers', TOKEN);
  const { callback } = receiver;
  await redis.hset(`subscriber:${TOKEN}`, { callback, timeout: '100', max_events: '10', uuid: 'old' });
  await redis.sadd(`topics:${TOKEN}`, TOPIC);
  await redis.sadd(`subscribers:${TOPIC}`, TOKEN);
  lab.ledger.expect({ topic: TOPIC, receiver, ordered: false });
  return receiver;
}

async function publishAsRuby(lab: Lab, web: RubyWeb, name: string): Promise<void> {
  const url = `https://shop.example.com/ruby/${name}`;
  await web.publish(TOPIC, url);
  lab.ledger.accept(TOPIC, [url]);
}

/** Publishes through the Ruby web until it is stopped. `stop` resolves with the number of events. */
function overlap(lab: Lab, web: RubyWeb): { stop: () => Promise<number> } {
  let published = 0;
  let stopped = false;
  const publishing = (async () => {
    while (!stopped) {
      await publishAsRuby(lab, web, `overlap/${published++}`);
      await sleep(PAUSE_MS);
    }
    return published;
  })();
  const stop = () => {
    stopped = true;
    return publishing;
  };
  lab.after(stop);
  return { stop };
}

async function deliverAsRuby(callback: string, events: Buffer[]): Promise<void> {
  const headers = { 'content-type': 'application/json' };
  await fetch(callback, { method: 'POST', headers, body: batchBody(events) });
}
