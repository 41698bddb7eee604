import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ago, bytes, duration, exactDuration, number, rate } from '../../src/console/format.ts';

test('numbers, sizes and times have units that people read', () => {
  assert.deepEqual([0, 950, 1234, 38_400, 4_500_000].map(number), ['0', '950', '1.2 k', '38 k', '4.5 M']);
  assert.deepEqual([999.6, 9960, 999_960].map(number), ['1.0 k', '10 k', '1.0 M']);
  assert.deepEqual([950, 1536, 40_000_000].map(bytes), ['950 B', '1.5 KiB', '38 MiB']);
  assert.deepEqual([1_048_500, 2 ** 20].map(bytes), ['1.0 MiB', '1 MiB']);
  assert.deepEqual([0, 1200, 1.5, 0.5].map(rate), ['0/s', '1.2 k/s', '1.5/s', '30/min']);
  assert.deepEqual([0.01667, 0.016666, 0.00333].map(rate), ['1/min', '1/min', '12/h']);
  assert.deepEqual([12, 4500, 59_000, 240_000, 7_200_000, 200_000_000].map(duration), [
    '12 ms',
    '4.5 s',
    '59 s',
    '4 min',
    '2 h',
    '2 d',
  ]);
  assert.deepEqual([0, 500, 1500, 90_000, 5_400_000, 129_600_000].map(exactDuration), [
    '0 ms',
    '500 ms',
    '1 s 500 ms',
    '1 min 30 s',
    '1 h 30 min',
    '1 d 12 h',
  ]);
  const nowMs = Date.UTC(2026, 10, 1);
  assert.match(ago(nowMs - 240_000, nowMs).text, /<time datetime="2026-10-31T23:56:00.000Z".*>4 min ago</);
  assert.match(ago(nowMs + 60_000, nowMs).text, />in 1 min</);
  for (const aheadMs of [0, 1, 999]) assert.match(ago(nowMs + aheadMs, nowMs).text, />now</);
  assert.match(ago(nowMs - 1, nowMs).text, />1 ms ago</);
  assert.match(ago(null, nowMs).text, /never/);
});
