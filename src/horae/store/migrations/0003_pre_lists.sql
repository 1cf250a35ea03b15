-- Lists of runs, newest first: of one tenant and one status, or of all statuses merged.
CREATE INDEX history_by_status ON history (tenant, status, id);
