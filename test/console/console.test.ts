// These tests share one bus and one browser, because starting both takes as much CPU as ten tests. Their order matters:
// those of `others.ts` remove what `pages.ts` and `root/` look at, and `login.ts` makes lists of a hundred rows.
import './pages.ts';
import './root/deliveries.ts';
import './root/rules.ts';
import './root/clients.ts';
import './root/dead_letters.ts';
import './root/topics_and_audit.ts';
import './others.ts';
import './mistyped.ts';
import './refused.ts';
import './typed_again.ts';
import './login.ts';
import './overview.ts';
import './wrong_clock.ts';
