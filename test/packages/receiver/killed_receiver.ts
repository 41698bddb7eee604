// A receiver for killed.ts, which kills it again and again. It notes its work in Redis: the list `handled` gets the
// URL of each event that its handler has handled, and `repeated` the URLs of deliveries that were confirmed before.
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createReceiver, RedisStore } from '../../../packages/receiver/src/index.ts';

const [port, redisUrl = ''] = process.argv.slice(2);
const redis = new Redis(redisUrl);
const store = new RedisStore((...command) => redis.call(...command), { claimMs: 200 });

const receiver = createReceiver({
  ...{ uuid: 'me', store },
  on: {
    async '*'(events, { id }) {
      const urls = events.map(({ url }) => url);
      if ((await redis.get(`routemaster:delivery:${id}`)) === 'handled')
        await redis.rpush('repeated', ...urls);
      await sleep(Math.random() * 10);
      await redis.rpush('handled', ...urls);
      await sleep(Math.random() * 10);
    },
  },
});
createServer(receiver.node()).listen(Number(port), '127.0.0.1');
