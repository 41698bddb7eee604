import { z } from 'zod';
import type { Dialect } from '../routing/dialect.ts';
import { advice } from '../routing/query.ts';
import type { Input, Wording } from '../routing/route.ts';
import { CLIENT_NAME, CLIENT_TOKEN, maxNameLength } from './client_token.ts';
import { isTopicPattern, MAX_PATTERNS, TOPIC_PATTERN_RULE } from './scope.ts';

export const TOKEN_RULE = 'must be a string of 1 to 64 characters: a-z, 0-9, _, -';
const NAME_RULE =
  `must be a string of 1 to ${maxNameLength(true)} characters: a-z, 0-9, _, -; ` +
  `of 1 to ${maxNameLength(false)} without a secret, or 64 with a token of your own choosing`;
const PATTERNS_RULE = 'must be an array of topic names, each perhaps ending in *';

const patterns = z
  .array(z.string(TOPIC_PATTERN_RULE).refine(isTopicPattern, TOPIC_PATTERN_RULE), PATTERNS_RULE)
  .max(MAX_PATTERNS, `must have at most ${MAX_PATTERNS} entries`)
  .optional();

/**
 * Returns the texts of errors about a body that has the wrong form. `fields` are the fields that a body may have.
 * `example` is a valid body, as JSON.
 */
export const clientWording = (example: string, fields: readonly string[]): Wording => ({
  code: 'bad_client',
  whole: `send an object such as ${example}`,
  field: (name, rule) => `${name} ${rule}`,
  unknown: (name) => `${name} is not a field here; ${advice(name, fields)}`,
});

const limits = z.strictObject({
  publish: patterns.describe('Topics that it may publish to from now on; any, if left out.'),
  subscribe: patterns.describe('Topics that it may subscribe to from now on; any, if left out.'),
});
export const LIMITS_INPUT: Input<z.infer<typeof limits>> = {
  schema: limits,
  wording: clientWording('{"publish": ["invoices"]}', Object.keys(limits.shape)),
};

const newClientFields = (isReserved: (text: string) => boolean) =>
  z.strictObject({
    name: z.string(NAME_RULE).regex(CLIENT_NAME, NAME_RULE).describe('What its token begins with.'),
    token: z
      .string(TOKEN_RULE)
      .regex(CLIENT_TOKEN, TOKEN_RULE)
      .refine((token) => !isReserved(token), 'is reserved; choose another')
      .nullish()
      .describe('A token of your own choosing, which is the credential.'),
    publish: patterns.describe('Topics that it may publish to: names, or beginnings followed by `*`.'),
    subscribe: patterns.describe('Topics that it may subscribe to.'),
    secret: z
      .boolean('must be true or false')
      .nullish()
      .describe('Whether the client has a secret; unless set, it has one if `token` is left out.'),
  });

const newClient = (fields: ReturnType<typeof newClientFields>, dialect: ClientDialect) =>
  (dialect.ignoresUnknownClientFields ? fields.strip() : fields)
    .transform(({ secret, token, ...rest }) => ({
      ...rest,
      token: token ?? undefined,
      secret: secret ?? (dialect.makesSecrets && typeof token !== 'string'),
    }))
    .superRefine(({ name, token, secret }, context) => {
      const refuse = (field: string, message: string) =>
        context.addIssue({ code: 'custom', path: [field], message });
      if (token && secret) refuse('secret', 'must be false for a token of your own choosing');
      // The bus makes the token from the name, so a name that is too long would make the token too long.
      if (!token && name.length > maxNameLength(secret)) refuse('name', NAME_RULE);
    });

type NewClient = z.infer<ReturnType<typeof newClient>>;

export type ClientDialect = Pick<Dialect, 'ignoresUnknownClientFields' | 'makesSecrets'>;

export function newClientInput(
  isReserved: (text: string) => boolean,
  dialect: ClientDialect,
): Input<NewClient> {
  const fields = newClientFields(isReserved);
  return {
    schema: newClient(fields, dialect),
    wording: clientWording('{"name": "billing"}', Object.keys(fields.shape)),
  };
}
