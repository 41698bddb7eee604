import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { Api } from '../../harness/http/api.ts';
import { routeTable } from '../../harness/route_table.ts';
import { check, difference, readTranscript } from './transcript.ts';

const FOLDER = join(import.meta.dirname, 'transcripts');

// Each section begins with an empty Redis.
const api = new Api({ env: { ROUTEMASTER_SCALING_THRESHOLD: '3' } });
beforeEach(() => api.reset());

const transcripts = readdirSync(FOLDER).map((file) => ({
  file,
  sections: readTranscript(join(FOLDER, file)),
}));

for (const { file, sections } of transcripts) {
  describe(file, () => {
    for (const { title, exchanges } of sections) {
      test(title, async () => {
        for (const exchange of exchanges) await check(api, exchange);
      });
    }
  });
}

test('a line that fails names the member of the answer that differs', () => {
  const expected = [{ name: 'a', events: { sent: 1 }, at: '1…' }];
  const answer = (part: object) => [{ name: 'a', events: { sent: 1 }, at: 17, ...part }];
  assert.equal(difference(answer({}), expected), undefined);
  assert.match(difference(answer({ more: 1 }), expected) ?? '', /^0 of the answer has more, which neither /);
  assert.equal(difference(answer({ events: {} }), expected), 'events of 0 of the answer has no sent');
  const other = difference(answer({ events: { sent: 2 } }), expected);
  assert.equal(other, 'sent of events of 0 of the answer is 2, and not 1');
  assert.equal(difference(answer({ at: 27 }), expected), 'at of 0 of the answer is 27, and not "1…"');
});

test('each call of the API is in a transcript', () => {
  const exchanges = transcripts.flatMap(({ sections }) => sections.flatMap((each) => each.exchanges));
  const missing = routeTable().filter(({ method, path }) => {
    const shape = new RegExp(`^${path.replaceAll(/:\w+/g, '[^/?]+')}(\\?.*)?$`);
    return !exchanges.some((each) => each.method === method && shape.test(each.path));
  });
  assert.deepEqual(
    missing.map(({ method, path }) => `${method} ${path}`),
    [],
  );
});
