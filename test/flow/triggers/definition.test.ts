import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { anyUrl } from '../../../harness/any_url.ts';
import {
  type Definition,
  definitionText,
  eventNow,
  readDefinition,
  revisionOf,
} from '../../../src/flow/triggers/definition.ts';
import { EVENT_TYPES, eventText } from '../../../src/publishing/event.ts';

const TIMING = { schedule: { every: 1000 }, start: 5, end: null, offset: 0 };

test('a definition is read as it was written, whatever its event', () => {
  const definition = fc.record({
    topic: fc.stringMatching(/^[a-z0-9_]{1,64}$/),
    event: fc.record({
      type: fc.constantFrom(...EVENT_TYPES),
      url: anyUrl.map((url) => `${url}#"t":1,"t":`),
      data: fc.option(
        fc.jsonValue().map((value) => JSON.stringify(value)),
        { nil: undefined },
      ),
    }),
  });
  const property = fc.property(definition, ({ topic, event }) => {
    const written: Definition = { topic, event, catchUp: 'all', timing: TIMING };
    const text = definitionText('revision', written);
    assert.equal(revisionOf(text), 'revision');
    const { event: read, ...rest } = readDefinition(text);
    assert.deepEqual(rest, { topic, catchUp: 'all', timing: TIMING });
    assert.deepEqual([read.type, read.url], [event.type, event.url]);
    assert.equal(JSON.stringify(read.data), event.data);
    assert.equal(eventNow(text, 'i', 7), eventText({ id: 'i', topic, timestamp: 7, ...event }));
  });
  fc.assert(property, { numRuns: 300 });
});

test('numbers in the data keep their digits', () => {
  const event = { type: 'noop', url: 'https://a.example.com/', data: '{"id":12345678901234567890}' } as const;
  const text = definitionText('r', { topic: 'a', event, catchUp: 'none', timing: TIMING });
  assert.equal(JSON.stringify(readDefinition(text).event.data), event.data);
});
