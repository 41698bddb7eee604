/**
 * Matches the start of a URL with credentials, such as `https://user:password@`. Group 1 is `https://`, and group 2 is
 * `user:password`. As in the URL standard, the last `@` before the path ends the credentials.
 */
const CREDENTIALS = /^([^:]*:[/\\]*)([^/\\?#]*)@/;

/**
 * Splits a callback into its decoded user name and the URL without credentials. `user` is undefined if there is no user
 * name, or if it cannot be decoded. Callbacks that a Ruby Routemaster has stored may have credentials.
 */
export function splitCallback(callback: string): { user: string | undefined; callback: string } {
  const [head, start = '', credentials = ''] = CREDENTIALS.exec(callback) ?? [];
  if (head === undefined) return { user: undefined, callback };
  return { user: decoded(credentials.split(':', 1)[0]), callback: start + callback.slice(head.length) };
}

function decoded(user: string | undefined): string | undefined {
  try {
    return decodeURIComponent(user ?? '') || undefined;
  } catch {
    return undefined;
  }
}
