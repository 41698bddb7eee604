import assert from 'node:assert/strict';
import { test } from 'node:test';
import { encode } from '@msgpack/msgpack';
import fc from 'fast-check';
import { batchBody } from '../../src/delivering/batch.ts';
import { takenRecord } from '../../src/delivering/taken_record.ts';
import { eventText } from '../../src/publishing/event.ts';

const text = (topic: string, data?: unknown) =>
  eventText({
    ...{ id: 'V1StGXR8_Z5jdHi6', topic, type: 'noop', url: 'https://a.example/"\\' },
    ...{ timestamp: 1, data: data === undefined ? undefined : JSON.stringify(data) },
  } as Parameters<typeof eventText>[0]);

function record(pieces: Buffer[], count: number): unknown[] {
  const batch = { bid: 'b', token: 'sub', createdAtMs: 1, attempts: 2, count, pieces };
  return JSON.parse(`[${takenRecord(batch, { atMs: 3, durationMs: 4.4, status: 204 })}]`);
}

test('the record of a batch has its events by topic and its bytes, whatever is in the events', () => {
  const topic = fc.constantFrom('widgets', 'gadgets', 'a');
  const event = fc.tuple(topic, fc.option(fc.jsonValue(), { nil: undefined })).map(([name, data]) => ({
    name,
    json: text(name, data),
  }));
  const batch = fc
    .array(event, { minLength: 1, maxLength: 10 })
    .chain((events) =>
      fc
        .array(fc.boolean(), { minLength: events.length, maxLength: events.length })
        .map((cuts) => ({ events, cuts })),
    );
  fc.assert(
    fc.property(batch, ({ events, cuts }) => {
      const pieces: string[] = [];
      for (const [index, { json }] of events.entries()) {
        const last = pieces.at(-1);
        if (last === undefined || cuts[index]) pieces.push(json);
        else pieces[pieces.length - 1] = `${last},${json}`;
      }
      const counts: Record<string, number> = {};
      for (const { name } of events) counts[name] = (counts[name] ?? 0) + 1;
      const buffers = pieces.map((each) => Buffer.from(each));
      const bytes = batchBody(buffers).length;
      assert.deepEqual(record(buffers, events.length), [1, events.length, 2, counts, bytes, 3, 204, 4]);
    }),
  );
});

test('what looks like an event in the data of an event is not counted', () => {
  const nested = [0, { id: 'V1StGXR8_Z5jdHi6', topic: 'gadgets' }];
  const events = [text('widgets', nested), text('widgets', JSON.stringify(nested)), text('a', { nested })];
  assert.deepEqual(record([Buffer.from(events.join(','))], 3)[3], { widgets: 2, a: 1 });
  assert.deepEqual(record([Buffer.from(text('widgets', nested))], 1)[3], { widgets: 1 });
  assert.equal(
    record([Buffer.from(encode(['e', { o: 'widgets', u: ',{"id":"1","topic":"gadgets"' }]))], 1)[3],
    null,
  );
});

test('the record of a batch has no topics if they cannot be counted cheaply', () => {
  const eleven = Buffer.from(Array(11).fill(text('widgets')).join(','));
  assert.equal(record([eleven], 11)[3], null);
  assert.equal(record([Buffer.from(text('widgets', 'x'.repeat(20_000)))], 1)[3], null);
  assert.equal(record([Buffer.from([0x92, 0xa1, 0x65])], 1)[3], null);
  const long = Array.from({ length: 9 }, (_, i) => Buffer.from(text(`${'t'.repeat(60)}${i}`)));
  assert.equal(record(long, 9)[3], null);
});
