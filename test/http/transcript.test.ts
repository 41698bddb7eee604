import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { Api } from '../../harness/http/api.ts';
import { check, readTranscript } from './transcript.ts';

const FOLDER = join(import.meta.dirname, 'transcripts');

// Each section begins with an empty Redis.
const api = new Api({ env: { ROUTEMASTER_SCALING_THRESHOLD: '3' } });
beforeEach(() => api.reset());

for (const file of readdirSync(FOLDER)) {
  describe(file, () => {
    for (const { title, exchanges } of readTranscript(join(FOLDER, file))) {
      test(title, async () => {
        for (const exchange of exchanges) await check(api, exchange);
      });
    }
  });
}
