import { timingSafeEqual } from 'node:crypto';
import type { Session } from '../authentication/sessions.ts';
import { BusError } from '../errors.ts';
import type { Caller } from '../routing/caller.ts';
import type { Call, Route } from '../routing/route.ts';
import { checked } from './validation.ts';
import { isFromOwnPage } from './well_formed.ts';

const TOKEN_FIELD = 'form_token';

/** Returns the caller of a page. Throws unauthenticated if the page needs a login and nobody is logged in. */
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
 * is not from a page of this bus, or older than the last login. Throws another BusError if a field does not match the
 * schema.
 */
export function readForm(route: Route, { text, headers, formToken }: Call): unknown {
  if (!isFromOwnPage(headers))
    throw new BusError('forbidden', 'this form did not come from a page of the console');
  const form = new URLSearchParams(text);
  // The login form has no form token, because its sender has no session yet.
  if (route.roles.length > 0 && !areEqual(form.get(TOKEN_FIELD) ?? '', formToken))
    throw new BusError(
      'forbidden',
      'this form is from before your last login; reload the page, and try again',
    );
  form.delete(TOKEN_FIELD);
  const fields = [...new Set(form.keys())].map((name) => {
    const values = form.getAll(name);
    return [name, values.length === 1 ? values[0] : values];
  });
  return checked(route.form, Object.fromEntries(fields));
}

function areEqual(given: string, expected: string): boolean {
  const [one, other] = [Buffer.from(given), Buffer.from(expected)];
  return one.length === other.length && timingSafeEqual(one, other);
}
