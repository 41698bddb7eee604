import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { Api } from '../../harness/http/api.ts';
import { routeTable } from '../../harness/route_table.ts';
import { check, readTranscript } from './transcript.ts';

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
