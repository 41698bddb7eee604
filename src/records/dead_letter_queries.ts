import { z } from 'zod';
import { DEATH_REASONS } from '../delivering/settlement.ts';
import { UID } from '../ids.ts';
import { LIMIT, TIME } from '../routing/paging.ts';
import { parameters } from '../routing/query.ts';
import type { Input } from '../routing/route.ts';
import { oneOf } from '../routing/schemas.ts';
import { askedFields } from '../subscribing/asked_subscribers.ts';
import { before } from './place.ts';

export const WHAT = 'dead letters';

const whose = askedFields(WHAT);

export const WHOSE = parameters(whose);
export const PAGE = parameters({
  ...whose,
  reason: oneOf(DEATH_REASONS)
    .optional()
    .describe('Only those that died for this reason. A page may have fewer of them, or none.'),
  since: TIME.describe('Only what died from this time on (ms since 1970).'),
  until: TIME.describe('Only what died before this time (ms since 1970).'),
  limit: LIMIT,
  before: before(/\d{1,15}/),
});

export const DEAD_LETTER_PARAMS: Input<{ id: string }> = {
  schema: z.object({ id: z.string().regex(UID).describe('The id of the dead letter.') }),
  wording: {
    code: 'dead_letter_not_found',
    whole: 'there is no such dead letter of yours; it may have been retried, purged or dropped',
  },
};
