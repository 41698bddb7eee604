// These tests share one web process, because its start takes as much CPU as most of them.
import './deliveries_api.ts';
import './delivery_listings.ts';
import './jobs.ts';
import './tail.ts';
