import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { type Event, eventText } from '../../src/publishing/event.ts';
import { FIELDS } from '../../src/publishing/event_fields.ts';
import { DELIVERED_EVENT, publishBody } from '../../src/publishing/event_schema.ts';
import { DIALECTS } from '../../src/routing/dialect.ts';

for (const [name, { events }] of Object.entries(DIALECTS))
  test(`the documentation has all fields of a published event, dialect ${name}`, () => {
    const [event] = publishBody(events).options;
    assert.ok(event instanceof z.ZodObject);
    assert.deepEqual(Object.keys(event.shape).sort(), [...FIELDS].sort());
  });

test('the documentation has all members of a delivered event, in the order in which they are sent', () => {
  const event: Required<Omit<Event, 'hasGivenId'>> = {
    ...{ id: 'x', topic: 'widgets', type: 'noop', timestamp: 5 },
    ...{ url: 'https://a.example.com/w/1', data: '{}' },
  };
  assert.deepEqual(Object.keys(DELIVERED_EVENT.shape), Object.keys(JSON.parse(eventText(event))));
});
