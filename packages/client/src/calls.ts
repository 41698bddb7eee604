import type { Calls } from './generated/calls.ts';

/** A call of the HTTP API, such as `GET /topics`. */
export type CallName = keyof Calls;

type ParamsIn<Path> = Path extends `${string}:${infer Name}/${infer Rest}`
  ? Name | ParamsIn<Rest>
  : Path extends `${string}:${infer Name}`
    ? Name
    : never;

type Given<Name extends string, Value> = [Value] extends [undefined] ? unknown : { [N in Name]?: Value };

/** The parameters in the path of a call, if it has any. */
export type PathParams<C extends CallName> = [ParamsIn<C>] extends [never]
  ? unknown
  : { params: Record<ParamsIn<C>, string> };

/** The input of a call: the parameters in its path, its query and its JSON body. */
export type CallInput<C extends CallName> = PathParams<C> &
  Given<'query', Calls[C]['query']> &
  ([Calls[C]['body']] extends [undefined] ? unknown : { body: Calls[C]['body'] });

export type CallAnswer<C extends CallName> = Calls[C]['answer'];

/** The name of a call whose answer is a list, which comes page by page. */
export type ListName = {
  [C in CallName]: C extends `GET ${string}`
    ? NonNullable<CallAnswer<C>> extends unknown[]
      ? C
      : never
    : never;
}[CallName];

/** An entry of a list. */
export type Entry<C extends ListName> = NonNullable<CallAnswer<C>> extends (infer E)[] ? E : never;

interface AnyInput {
  params?: Record<string, string>;
  query?: Record<string, string | number | undefined>;
  body?: unknown;
}

/**
 * Returns the method, path and body of a call. Throws TypeError if a parameter in the path is no text, or if it is
 * empty, `.` or `..`, because the request could then go to another path. For example, `fetch` resolves `..`, even if
 * the dots are encoded.
 */
export function requestOf(call: CallName, input: object): { method: string; path: string; body?: string } {
  const { params = {}, query = {}, body } = input as AnyInput;
  const [method = '', pattern = ''] = call.split(' ');
  const path = pattern.replace(/:(\w+)/g, (_, name: string) => {
    const value = params[name] ?? '';
    if (typeof value !== 'string') throw new TypeError(`${name} must be a text`);
    if (value === '' || value === '.' || value === '..')
      throw new TypeError(`${name} must not be ${value || 'empty'}`);
    return encodeURIComponent(value);
  });
  const asked = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined) asked.set(name, String(value));
  return {
    method,
    path: asked.size === 0 ? path : `${path}?${asked}`,
    ...(body !== undefined && { body: JSON.stringify(body) }),
  };
}
