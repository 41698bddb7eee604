// These tests share one bus and one browser, because starting both takes as much CPU as ten tests. Their order matters:
// those of `others.ts` remove what the first two look at.
import './pages.ts';
import './root.ts';
import './others.ts';
import './login.ts';
import './mistyped.ts';
import './refused.ts';
import './overview.ts';
