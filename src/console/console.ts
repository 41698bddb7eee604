import type { Route } from '../route.ts';
import { assetRoutes } from './assets.ts';
import { type LoginParts, loginPages } from './login_pages.ts';
import { type OverviewParts, overviewPage } from './overview_page.ts';

type ConsoleParts = LoginParts & OverviewParts;

/** All pages of the console, in their order in the navigation. */
export function consolePages(parts: ConsoleParts): Route[] {
  return [...assetRoutes(), ...loginPages(parts), ...overviewPage(parts)];
}
