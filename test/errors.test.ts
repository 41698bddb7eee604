import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { BootError, BusError, ERRORS, StorageFull, StorageUnavailable } from '../src/errors.ts';

describe('every error', () => {
  test('has a code in snake_case, a status that fits, and a title that is a phrase', () => {
    for (const [code, { status, title }] of Object.entries(ERRORS)) {
      assert.match(code, /^[a-z]+(_[a-z]+)*$/);
      assert.ok(status >= 400 && status < 600, code);
      assert.match(title, /^[A-Z][^.]*$/, code);
    }
  });

  test('has the status of its code, what the caller should change, and its cause', () => {
    const cause = new Error('below');
    const error = new BusError('bad_event', 'type must be one of …', {
      cause,
      members: { index: 3, field: 'type' },
    });
    assert.ok(error instanceof Error);
    assert.deepEqual([error.code, error.status, error.message], ['bad_event', 400, 'type must be one of …']);
    assert.equal(error.cause, cause);
    assert.deepEqual([error.members, error.headers], [{ index: 3, field: 'type' }, {}]);
    assert.ok(!('cause' in new BusError('not_found', 'nothing')));
  });
});

describe('an error of the storage', () => {
  for (const [error, code] of [
    [new StorageUnavailable(new Error('ECONNREFUSED redis://:secret@host')), 'storage_unavailable'],
    [new StorageFull(new Error('OOM secret')), 'storage_full'],
  ] as const) {
    test(`(${code}) is a 503 that says when to come again, and keeps its cause to itself`, () => {
      assert.deepEqual([error.code, error.status], [code, 503]);
      assert.match(String(error.headers['Retry-After']), /^\d+$/);
      assert.doesNotMatch(error.message, /secret/);
      assert.equal(error.name, error.constructor.name);
    });
  }
});

test('a process that must not start exits with EX_CONFIG, or with EX_TEMPFAIL if the cause may pass', () => {
  assert.equal(new BootError('set this', { cause: 'x' }).exitCode, 78);
  assert.equal(new BootError('set this', { cause: 'x' }).cause, 'x');
  assert.equal(new BootError('wait for this', { mayPass: true }).exitCode, 75);
});
