import { z } from 'zod';
import type { Authentication } from '../authentication/authentication.ts';
import type { Sessions } from '../authentication/sessions.ts';
import { BusError, type ErrorCode } from '../errors.ts';
import { html } from '../html.ts';
import type { Proxies } from '../routing/proxies.ts';
import { ALL, ANYONE, type Input, type Route } from '../routing/route.ts';
import { parseUrl } from '../urls.ts';
import type { Page } from './layout.ts';
import { action, page } from './page.ts';
import { hidden } from './parts.ts';

export interface LoginParts {
  authentication: Pick<Authentication, 'login'>;
  sessions: Sessions;
  proxies: Proxies;
}

interface LoginPagesParts extends LoginParts {
  /** Returns `path` if a page has this path, and otherwise the path of the nearest page above it. */
  pageNear: (path: string) => string;
}

/**
 * Maximum characters of the user name, and of the path to return to. The page of a refused login contains both again.
 * Without these limits, anybody could keep the bus busy with long texts.
 */
const MAX_USER = 256;
const MAX_PATH = 4096;

const FIELDS: Input<{ user: string; password: string; to?: string | undefined }> = {
  schema: z.object({
    user: z.string().max(MAX_USER, `must have at most ${MAX_USER} characters`),
    password: z.string(),
    to: z.string().optional(),
  }),
  wording: { code: 'bad_body', whole: 'a login has the fields user and password' },
};

/** The codes of errors that are no answer to a login. They get a page of their own. */
const THROWN: readonly ErrorCode[] = ['internal', 'storage_unavailable'];

export function loginPages({ authentication, sessions, proxies, pageNear }: LoginPagesParts): Route[] {
  return [
    page('/console/login', ANYONE, async ({ query: { to } }) => loginPage({ to: ownPath(to) })),
    action('/console/login', ANYONE, {
      form: FIELDS,
      async act({ request, body: { user, password, to } }) {
        try {
          const name = user.trim();
          const caller = await authentication.login(request, name, password);
          const cookie = await sessions.begin(caller, name, password, proxies.cameByHttps(request));
          return { status: 303, headers: { Location: ownPath(to), 'Set-Cookie': cookie } };
        } catch (error) {
          if (!(error instanceof BusError) || THROWN.includes(error.code)) throw error;
          return loginPage({ to: ownPath(to), user, error });
        }
      },
    }),
    action('/console/logout', ALL, {
      async act({ request, headers }) {
        const cookie = await sessions.end(headers, proxies.cameByHttps(request));
        return { status: 303, headers: { Location: '/console/login', 'Set-Cookie': cookie } };
      },
    }),
  ];

  /**
   * Returns the path of the page to show after a login. For a path outside the console, returns the overview's path, so
   * that a link to the login page cannot lead a person to another site.
   */
  function ownPath(to = ''): string {
    const url = to.length > MAX_PATH ? null : parseUrl(to, 'https://console');
    if (url?.host !== 'console' || !/^\/console(\/|$)/.test(url.pathname)) return '/console';
    const path = pageNear(url.pathname);
    return path === url.pathname ? path + url.search : path;
  }
}

interface Login {
  to: string;
  user?: string;
  error?: BusError;
}

function loginPage({ to, user = '', error }: Login): Page {
  return {
    title: 'Log in',
    ...(error && { status: error.status }),
    body: html`<form class="login card" method="post" action="/console/login">
<h1>Log in</h1>
${error && html`<p class="problem" role="alert">${error.message}</p>`}
<label>User <input name="user" value="${user}" required${!error && html` autofocus`} autocomplete="username" autocapitalize="none" spellcheck="false"></label>
<p class="hint"><code>root</code>, <code>viewer</code>, or the token of a client</p>
<label>Key or secret <input name="password" type="password"${error && html` autofocus`} autocomplete="current-password"></label>
${hidden({ to })}
<button>Log in</button>
</form>`,
  };
}
