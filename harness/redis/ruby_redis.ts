import type { Commands } from '../../src/store/partition.ts';

export const RUBY_TOKEN = 'demo--0123456789abcdef';
/** A stored event of type `create` for https://a.example.com/w/1 in `widgets`, without data. */
export const RUBY_EVENT = Buffer.from(
  '92a16585a174cf000001a1f8494448a16fa777696467657473a179a6637265617465' +
    'a175b968747470733a2f2f612e6578616d706c652e636f6d2f772f31a164c0',
  'hex',
);
/** A stored `update` event for the same URL, with the data `{"color":"teal","n":1,"f":1.5,"z":null,"b":true}`. */
export const RUBY_EVENT_WITH_DATA = Buffer.from(
  '92a16585a174cf000001a1f849444ca16fa777696467657473a179a6757064617465' +
    'a175b968747470733a2f2f612e6578616d706c652e636f6d2f772f31' +
    'a16485a5636f6c6f72a47465616ca16e01a166cb3ff8000000000000a17ac0a162c3',
  'hex',
);
/** `batch(vHFAAGBX0UExbPAKqIDl)` */
export const RUBY_JOB = Buffer.from('92a5626174636891b47648464141474258305545786250414b7149446c', 'hex');

/**
 * Fills a Redis as the Ruby Routemaster leaves it: a ready batch (`vHFA…`, tried twice) with an instant job, a current
 * batch (`…B`) with a scheduled job, a batch without a job (`…C`), and an index entry without a batch (`…D`).
 */
export async function writeRubyRedis(redis: Commands): Promise<void> {
  const bid = 'vHFAAGBX0UExbPAKqIDl';
  const [current, jobless, lost] = ['B', 'C', 'D'].map((letter) => `aaaaaaaaaaaaaaaaaaa${letter}`) as [
    string,
    string,
    string,
  ];
  const job = (name: string) => Buffer.concat([Buffer.from('92a5626174636891b4', 'hex'), Buffer.from(name)]);
  const write = redis.pipeline();
  write.sadd('topics', 'widgets').hset('topic:widgets', 'publisher', 'publisher--42', 'counter', 41);
  write
    .sadd('subscribers', RUBY_TOKEN)
    .sadd(`topics:${RUBY_TOKEN}`, 'widgets')
    .sadd('subscribers:widgets', RUBY_TOKEN);
  write.hset(`subscriber:${RUBY_TOKEN}`, 'callback', 'https://s.example/', 'timeout', 500, 'max_events', 100);
  write.hset(
    `subscriber:${RUBY_TOKEN}`,
    'uuid',
    'hello',
    'health_points',
    96,
    'last_attempted_at',
    1795166913650,
  );
  write.hset('api_tokens:by_token', RUBY_TOKEN, 'demo', 'publisher--42', 'shop');

  write.rpush(`batches:${bid}`, RUBY_TOKEN, 1795166913600, 2, RUBY_EVENT, RUBY_EVENT_WITH_DATA);
  write.rpush(`batches:${current}`, RUBY_TOKEN, 1795166913700, 0, RUBY_EVENT);
  write.rpush(`batches:${jobless}`, RUBY_TOKEN, 1795166913800, 0, RUBY_EVENT);
  write.zadd(
    'batches:index',
    1795166913600,
    bid,
    1795166913700,
    current,
    1795166913800,
    jobless,
    1795166913900,
    lost,
  );
  write.sadd(`batches:current:${RUBY_TOKEN}`, current);
  write.hset('batches:gauges:event', RUBY_TOKEN, 4).hset('batches:gauges:batch', RUBY_TOKEN, 3);

  write.sadd('jobs:index:main', RUBY_JOB, job(current)).lpush('jobs:instant:main', RUBY_JOB);
  write.zadd('jobs:scheduled:main', 1795166999999, job(current));
  const monitor = Buffer.from('92a76d6f6e69746f7290', 'hex');
  const schedule = Buffer.from('92a87363686564756c6590', 'hex');
  write.sadd('jobs:index:aux', monitor, schedule).lpush('jobs:instant:aux', monitor);
  write.lpush('jobs:pending:aux:old', schedule).sadd('jobs:pending:index:aux', 'old');
  write.hset('workers', 'old', 1795166913000);

  // ["events.published", [["topic", "widgets"]]]
  const field = Buffer.from('92b06576656e74732e7075626c69736865649192a5746f706963a777696467657473', 'hex');
  write.hset('counters', field, 41);
  await write.exec();
}
