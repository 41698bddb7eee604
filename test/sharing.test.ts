import assert from 'node:assert/strict';
import { test } from 'node:test';
import { sharing } from '../src/sharing.ts';

test('callers share a call that is under way, also one that fails; the next caller begins another', async () => {
  const begun: PromiseWithResolvers<string>[] = [];
  const shared = sharing(() => {
    const call = Promise.withResolvers<string>();
    begun.push(call);
    return call.promise;
  });
  const first = Promise.all([shared(), shared()]);
  begun[0]?.resolve('one');
  assert.deepEqual(await first, ['one', 'one']);
  const second = Promise.allSettled([shared(), shared()]);
  begun[1]?.reject(new Error('away'));
  assert.deepEqual(
    (await second).map(({ status }) => status),
    ['rejected', 'rejected'],
  );
  const third = shared();
  begun[2]?.resolve('three');
  assert.equal(await third, 'three');
  assert.equal(begun.length, 3);
});
