-- For a table of four columns that exists already.
-- Running instances learn of the new columns within a minute, and a holder then writes its lease
-- with its next heartbeat.
--
-- Until then all instances must keep one and the same lease. Instances with different leases are
-- safe once every running instance has learnt of `lease_ms`: a minute and the longest lease after
-- this statement, and once `LockTable::check` lists no lock whose holder has not written its lease.
ALTER TABLE locktable ADD COLUMN lease_ms bigint;
ALTER TABLE locktable ADD COLUMN info text;
