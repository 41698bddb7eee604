import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { RUBY_JOB } from '../../harness/redis/ruby_redis.ts';
import { packJob, unpackJob } from '../../src/store/job.ts';

test('a job is packed as the Ruby Routemaster packs it', () => {
  assert.deepEqual(packJob('batch', ['vHFAAGBX0UExbPAKqIDl']), RUBY_JOB);
  assert.equal(packJob('scrub').toString('hex'), '92a5736372756290');
});

test('a job reads back as it was', () => {
  assert.deepEqual(unpackJob(RUBY_JOB), { name: 'batch', args: ['vHFAAGBX0UExbPAKqIDl'] });
  fc.assert(
    fc.property(fc.string(), fc.array(fc.oneof(fc.string(), fc.integer(), fc.boolean())), (name, args) => {
      assert.deepEqual(unpackJob(packJob(name, args)), { name, args });
    }),
  );
});

test('any other bytes read as undefined', () => {
  for (const bytes of ['', '68656c6c6f', '92a5626174636891', '93a16190c0c1', '9201c0', '92a161c0', '80']) {
    assert.equal(unpackJob(Buffer.from(bytes, 'hex')), undefined, bytes);
  }
  fc.assert(fc.property(fc.uint8Array(), (bytes) => void unpackJob(Buffer.from(bytes))));
});
