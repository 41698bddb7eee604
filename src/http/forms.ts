import { parse } from 'node:querystring';
import { areEqual } from '../authentication/credentials.ts';
import type { Session } from '../authentication/sessions.ts';
import { BusError } from '../errors.ts';
import type { Caller } from '../routing/caller.ts';
import type { Call, Route } from '../routing/route.ts';
import { checked } from './validation.ts';
import { isFromOwnPage } from './well_formed.ts';

const TOKEN_FIELD = 'form_token';
/** Maximum fields of a form. The largest form selects 1,000 dead letters. Parsing 32,000 fields would take 30 ms. */
const MAX_FIELDS = 2000;

/** Returns who asks for a page. Throws unauthenticated if the page needs a login, and nobody is logged in. */
export function visitorOf({ roles }: Route, session: Session | undefined): Caller | undefined {
  if (roles.length > 0 && !session) throw new BusError('unauthenticated', 'log in first');
  return session?.caller;
}

export function wrongVisitor(caller: Caller): BusError {
  const who = caller.role === 'client' ? `the client ${caller.name}` : caller.role;
  return new BusError('forbidden', `you are logged in as ${who}, who may not do this`);
}

/**
 * Returns the checked fields of a form. A field that occurs several times becomes a list. Throws forbidden if the form
 * is not from a page of this bus, or is older than the last login. Throws another BusError if a field is wrong.
 */
export function readForm(route: Route, { text, headers, formToken }: Call): unknown {
  if (!isFromOwnPage(headers))
    throw new BusError('forbidden', 'this form did not come from a page of the console');
  const { [TOKEN_FIELD]: token, ...fields } = parse(text, '&', '=', { maxKeys: MAX_FIELDS });
  // The login form has no form token, because it has no session yet.
  if (route.roles.length > 0 && !areEqual(Buffer.from(String(token)), Buffer.from(formToken)))
    throw new BusError(
      'forbidden',
      'this form is from before your last login; reload the page, and try again',
    );
  return checked(route.form, fields);
}
