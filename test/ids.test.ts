import assert from 'node:assert/strict';
import { test } from 'node:test';
import { eventId, secret, uid, uidSeed } from '../src/ids.ts';

const KINDS = [
  { make: uid, length: 20 },
  { make: uidSeed, length: 16 },
  { make: eventId, length: 16 },
  { make: secret, length: 32 },
];

for (const { make, length } of KINDS)
  test(`${make.name} has ${length} characters of URL-safe Base64, and cannot be taken for an option`, () => {
    const made = Array.from({ length: 1000 }, () => make());
    for (const id of made) assert.match(id, new RegExp(`^(?!-)[\\w-]{${length}}$`));
    assert.equal(new Set(made).size, made.length);
  });
