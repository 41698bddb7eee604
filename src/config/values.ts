import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { REMOVED } from '../ids.ts';

/** Maximum delay of a timer in Node. A timer with a longer delay would end at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

const numberOf = (what: string, digits: RegExp, min: number, max: number) => {
  const rule = `must be ${what} from ${min} to ${max}`;
  return z.string().regex(digits, rule).transform(Number).pipe(z.number(rule).min(min, rule).max(max, rule));
};

export const whole = (min: number, max: number) => numberOf('a whole number', /^-?\d+$/, min, max);

export const bytes = whole(0, Number.MAX_SAFE_INTEGER);

/** A setting in seconds, as in the Ruby Routemaster. The configuration has it in milliseconds. */
export const seconds = (min: number, max: number) =>
  numberOf('a number of seconds', /^\d+(\.\d+)?$/, min, max).transform((value) => Math.round(value * 1000));

export const yesNo = z
  .string()
  .regex(/^(true|on|yes|1|false|off|no|0)$/i, 'must be yes or no')
  .transform((value) => /^(true|on|yes|1)$/i.test(value));

export const list = z.string().transform((value) => value.split(/[\s,]+/).filter((item) => item !== ''));

const NO_COLON = /^[^:\s\p{Cc}]+$/u;

/** The keys of root or of viewers: one, or two that are separated by a space while the first replaces the second. */
export const keys = z
  .string({ error: 'must be set: the key that creates clients (32 random characters)' })
  .transform((value) => value.split(' '))
  .pipe(
    z
      .array(z.string().regex(NO_COLON, 'must have no colon, and no space but one between two keys'))
      .max(2, 'must be one key, or two with a space between them'),
  );

export const tokens = list.pipe(
  z.array(
    z
      .string()
      .regex(NO_COLON, 'must have no colon: HTTP Basic could not carry it')
      .refine(
        (token) => token !== REMOVED,
        `must not have the token ${REMOVED}, which figures use for removed subscribers: give this client another token`,
      ),
  ),
);

/** Certificates: their text, or the path of a file. The file is read once, so that all threads use the same ones. */
export const certificates = z.string().transform((value, { issues }) => {
  try {
    return readCertificates(value);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === undefined || code.startsWith('ERR_OSSL') ? '' : ` (${code})`;
    issues.push({
      code: 'custom',
      message: `must be a readable file of certificates in PEM, or these themselves${why}`,
      input: value,
    });
    return z.NEVER;
  }
});

/**
 * Returns the PEM certificates in the value, or in the file that it names. Throws if a certificate is bad, because TLS
 * would ignore it.
 */
function readCertificates(value: string): string {
  const pem = value.includes('-----BEGIN') ? value : readFileSync(value, 'utf8');
  const certificates = pem
    .split(/(?=-----BEGIN )/)
    .filter((part) => /^-----BEGIN .*CERTIFICATE-----/.test(part));
  if (certificates.length === 0) throw new Error('there is no certificate');
  for (const each of certificates) new X509Certificate(each);
  return pem;
}

/**
 * A prefix of all keys in Redis. Characters are refused if they could have a meaning in the patterns of `SCAN` and of
 * ACLs.
 */
export const keyPrefix = z
  .string()
  .regex(/^[\w{}:-]*$/, 'must have only letters, digits, and the characters _ - { } :');

export const proxy = z
  .string()
  .refine(isProxy, 'must be a URL such as http://user:password@proxy.internal:3128');

function isProxy(value: string): boolean {
  try {
    const { protocol, username, password } = new URL(value);
    decodeURIComponent(username + password);
    return /^https?:$/.test(protocol);
  } catch {
    return false;
  }
}

const LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

export const logLevel = z
  .string()
  .transform((value) => value.toLowerCase())
  .pipe(z.enum(LEVELS, { error: `must be one of ${LEVELS.join(', ')}` }));

export const compatibility = z.enum(['routemaster', 'none'], { error: 'must be routemaster or none' });

export const dropPolicy = z.enum(['fair', 'oldest'], { error: 'must be fair or oldest' });

export const metricService = z.enum(['print', 'prometheus', 'datadog'], {
  error: 'must be print, prometheus or datadog',
});
