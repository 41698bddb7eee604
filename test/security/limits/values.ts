import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { problemIn } from '../../../harness/http/api.ts';
import { MAX_BODY_BYTES } from '../../../src/routing/route.ts';
import { api } from './default_api.ts';

const MAX_DATA = 65_536;
/** Maximum bytes in the body of a trigger. */
const MAX_TRIGGER = 6 * MAX_DATA + MAX_BODY_BYTES;
const callback = 'https://203.0.113.1/events';

/** Returns a JSON array of this value, of at most so many bytes. */
function list(value: string, bytes: number): string {
  const values = Array(Math.floor((bytes - 1) / (value.length + 1))).fill(value);
  return `[${values.join()}]`;
}

function trigger(data: string): string {
  const event = `{"type":"noop","url":"https://app.example.com/1","data":${data}}`;
  return `{"topic":"reports","schedule":{"every":1000},"event":${event}}`;
}

describe('a call with many values', () => {
  for (const [path, body] of [
    ['/triggers/heavy', trigger(list('{}', MAX_TRIGGER - 1000))],
    ['/triggers/heavy', trigger(list('0', MAX_TRIGGER - 1000))],
    ['/joins/heavy', `{"sources":${list('{}', MAX_BODY_BYTES - 1000)}}`],
    ['/joins/heavy', `{"sources":${list('0', MAX_BODY_BYTES - 1000)}}`],
  ] as const) {
    test(`is refused before they are looked at: ${path}, ${body.slice(-20)}`, async () => {
      const refused = problemIn(await api.call('PUT', path, { as: 'heavy', body }));
      assert.deepEqual([refused.status, refused.detail], [413, 'the body has too many values; send less']);
    });
  }

  test('is accepted if its values are as many as may be', async () => {
    for (const value of ['0', '{}', '""']) {
      const body = trigger(list(value, MAX_DATA));
      const { status, text } = await api.call('PUT', '/triggers/full', { as: 'full', body });
      assert.ok(status === 200 || status === 201, text);
    }
    const topics = Array.from({ length: 1000 }, (_, n) => `${'x'.repeat(60)}_${n}`.slice(-64));
    const body = JSON.stringify({ topics, callback }, undefined, 16);
    assert.ok(body.length > 70_000);
    const { text } = await api.call('POST', '/subscription', { as: 'full', body });
    assert.match(text, /its host is at an address that is not public/);
  });
});

describe('a host whose name takes long to read', () => {
  const name = String.fromCharCode(...Array.from({ length: 64 }, (_, n) => 0x4e00 + n * 307));
  const slow = `https://${name}.example.com/`;

  test('is refused in an event and in a callback', async () => {
    const event = JSON.stringify({ type: 'noop', url: slow });
    const published = problemIn(await api.call('POST', '/topics/slow', { as: 'slow', body: event }));
    assert.deepEqual(
      [published.status, published.detail],
      [400, `url must be an https:// URL, not "${slow}"`],
    );
    const body = JSON.stringify({ topics: ['slow'], callback: slow });
    const subscribed = problemIn(await api.call('POST', '/subscription', { as: 'slow', body }));
    assert.deepEqual([subscribed.status, subscribed.field], [400, 'callback']);
  });

  test('is not read in headers, and not where a login leads', async () => {
    const origin = `http://${encodeURIComponent(name)}`;
    const headers = { origin, host: origin.slice('http://'.length) };
    assert.equal((await api.call('GET', '/topics', { as: 'slow', headers })).status, 403);
    const { text } = await api.call('GET', `/console/login?to=${encodeURIComponent(slow)}`);
    assert.match(text, /name="to" value="\/console"/);
  });
});
