import { Api } from '../../../harness/http/api.ts';
import { assertWorks } from '../../../harness/http/refusal.ts';

/** The web process of the tests that `on_default_api.test.ts` runs. */
export const api = new Api({ prepare: assertWorks });
