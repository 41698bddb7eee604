import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { until } from '../../harness/until.ts';
import { LiveParts } from '../../src/console/live_parts.ts';
import { ALL, type Call, ok, type Route, route } from '../../src/routing/route.ts';

setFlagsFromString('--expose-gc');
const collectGarbage = runInNewContext('gc') as () => void;

test('answers that open pages share are not kept after their time', async () => {
  const made: WeakRef<object>[] = [];
  const handle = async () => {
    const answer = { ...ok('x'), priceInCalls: 0 };
    made.push(new WeakRef(answer));
    return answer;
  };
  const shared = new LiveParts().share(
    route('GET /console', ALL, { answers: {}, handle: handle as never }) as Route,
  );
  for (let n = 0; n < 10; n++)
    await shared.handle({
      headers: { 'hx-request': 'true' },
      path: '/console',
      query: { n },
    } as unknown as Call);
  assert.equal(made.length, 10);
  const areGone = () => {
    collectGarbage();
    return made.every((answer) => answer.deref() === undefined);
  };
  await until(areGone, { timeoutMs: 10_000, everyMs: 200 });
});
