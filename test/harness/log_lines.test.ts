import assert from 'node:assert/strict';
import { test } from 'node:test';
import { renderLogLine } from '../../harness/local/log_lines.ts';

test('a log line is shortened to time, level, message and fields', () => {
  const line = renderLogLine(
    JSON.stringify({
      level: 40,
      time: '2026-11-20T10:25:01.123Z',
      pid: 1,
      msg: 'delivery failed',
      subscriber: 'a--1',
      err: { message: 'no route', stack: 'Error: …' },
    }),
  );
  assert.match(line, /^\d\d:\d\d:01 warn {2}delivery failed subscriber=a--1 err="no route"$/);
});

test('long values are cut', () => {
  assert.ok(
    renderLogLine(JSON.stringify({ level: 30, time: 0, msg: 'm', data: 'x'.repeat(9_999) })).length < 200,
  );
});

for (const line of ['plain text', '{not json', '{"a":1}', '']) {
  test(`${JSON.stringify(line)} passes as it is`, () => {
    assert.equal(renderLogLine(line), line);
  });
}
