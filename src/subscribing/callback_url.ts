/**
 * Matches the start of a URL that has credentials, such as `https://user:password@`. The first group is the scheme with
 * its slashes, the second the credentials. As in the URL standard, the credentials end at the last `@` before the path.
 */
const CREDENTIALS = /^([^:]*:[/\\]*)([^/\\?#]*)@/;

/**
 * Splits a callback URL into its user name and the URL without credentials. `user` is the decoded user name. It is
 * undefined if the URL has no user name, or one that cannot be decoded. The password is dropped. Callbacks from a Ruby
 * Routemaster may have credentials, because its command `rtm` asks for them.
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
