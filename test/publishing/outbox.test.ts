// These tests share one Redis, because its start takes as much CPU as most of them.
import './outbox/moving.ts';
import './outbox/setting_aside.ts';
import './outbox/subscriptions.ts';
import './outbox/damage.ts';
