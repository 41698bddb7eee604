/** The scheme and the slashes of a URL, and the credentials after them, as the URL standard finds them. */
const CREDENTIALS = /^([^:]*:[/\\]*)([^/\\?#]*)@/;

/**
 * Separates the credentials in a URL from the rest of it. `user` is the decoded user name; undefined if the URL
 * has none, or one that cannot be decoded. The password is dropped. Callbacks of a Ruby Routemaster may have
 * credentials, and its command `rtm` asks for them.
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
