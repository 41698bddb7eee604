// These tests share another bus than on_one_bus.test.ts, so that both files run at the same time. The doctor of root looks
// at all subscribers. So it looks at them first, before other tests leave subscribers whose deliveries fail. Its last
// tests come last: they break the bus.
import './doctor_all_well.ts';
import './doctor_subscribers.ts';
import './trigger_and_dead.ts';
import './join.ts';
import './ending.ts';
import './tail.ts';
import './audit_and_delivery.ts';
import './verify.ts';
import './proxied.ts';
import './empty_uuid.ts';
import './doctor.ts';
