import assert from 'node:assert/strict';
import { test } from 'node:test';
import { attemptJson } from '../../src/delivering/attempt.ts';

test('an attempt is kept with all its fields, times in whole milliseconds', () => {
  const attempt = {
    atMs: 1_700_000_000_000,
    durationMs: 12.6,
    status: 503,
    reason: 'HTTP 503',
    answer: 'n"o',
  };
  assert.equal(
    attemptJson(attempt),
    '{"at":1700000000000,"status":503,"duration_ms":13,"reason":"HTTP 503","answer":"n\\"o"}',
  );
});

test('status and answer are null if there was no answer', () => {
  assert.equal(
    attemptJson({ atMs: 1, durationMs: 0, reason: 'ECONNREFUSED' }),
    '{"at":1,"status":null,"duration_ms":0,"reason":"ECONNREFUSED","answer":null}',
  );
});

test('texts from the callback are kept in one line, printable and bounded', () => {
  const kept = (text: string) => {
    const { reason, answer } = JSON.parse(
      attemptJson({ atMs: 1, durationMs: 0, reason: text, answer: text }),
    );
    assert.equal(reason, answer);
    return answer;
  };
  assert.equal(kept('zu spät, 遅い 🐢 <b>"\\'), 'zu spät, 遅い 🐢 <b>"\\');
  assert.equal(kept('a\r\n\tb\u2028c\u2029d'), 'a   b c d');
  assert.equal(kept('says more\n'), 'says more');
  assert.equal(kept('\0\x1b[2J\x7f\x9b1m\u202egpj\ufeff\ud800'), '��[2J��1m�gpj��');
  assert.equal(kept('x'.repeat(10_000)), 'x'.repeat(256));
  assert.equal(kept(`${'x'.repeat(255)}🐢`), `${'x'.repeat(255)}�`, 'cut within a character');
});
