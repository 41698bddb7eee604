/**
 * Matches the start of a URL with credentials, such as `https://user:password@`. Group 1 is `https://`, and group 2 is
 * `user:password`. As in the URL standard, the last `@` before the path ends the credentials.
 */
const CREDENTIALS = /^([^:]*:[/\\]*)([^/\\?#]*)@/;

/**
 * Splits a callback into its user name, as it is encoded there, and the URL without credentials. `user` is empty if
 * there is no user name. Callbacks that a Ruby Routemaster has stored may have credentials.
 */
export function splitCallback(callback: string): { user: string; callback: string } {
  const [head, start = '', credentials = ''] = CREDENTIALS.exec(callback) ?? [];
  if (head === undefined) return { user: '', callback };
  const [user = ''] = credentials.split(':', 1);
  return { user, callback: start + callback.slice(head.length) };
}
