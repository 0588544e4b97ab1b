from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("fleet", "0003_no_breakers")]

    operations = [migrations.AddField(model_name="worker", name="refused", field=models.TextField(blank=True))]
